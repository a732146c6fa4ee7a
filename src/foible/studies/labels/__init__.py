"""Wrong labels: of the images where all networks disagree with the label, how many do people call mislabelled?"""
